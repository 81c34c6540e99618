#!/bin/sh
# Run once by the PostgreSQL image when it makes the database: a role for Grafana that can read what the daemon writes, no more.
set -eu
[ -n "${GRAFANA_DATABASE_PASSWORD:-}" ] || { echo "GRAFANA_DATABASE_PASSWORD is not set: no role for Grafana"; exit 0; }
psql --set=ON_ERROR_STOP=1 --set=password="$GRAFANA_DATABASE_PASSWORD" --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
create role grafana login password :'password';
alter role grafana set default_transaction_read_only = on;
alter role grafana set statement_timeout = '30s';
grant usage on schema public to grafana;
alter default privileges in schema public grant select on tables to grafana;
SQL
