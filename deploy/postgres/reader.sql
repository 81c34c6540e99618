-- A role for Grafana and reports that reads the views and nothing else. Run once, after breakeven has made its tables, as the owner of
-- the database or a superuser:  psql -d breakeven -v reader=grafana -v password=... -f reader.sql
\set ON_ERROR_STOP on
begin;
create role :"reader" login password :'password' nosuperuser nocreatedb nocreaterole connection limit 10;
alter role :"reader" set default_transaction_read_only = on;
alter role :"reader" set statement_timeout = '30s';
grant usage on schema public to :"reader";
grant select on v_current_offers, v_price_history, v_cheapest, v_breakeven, v_monthly_cost, v_gpu_days to :"reader";
commit;
