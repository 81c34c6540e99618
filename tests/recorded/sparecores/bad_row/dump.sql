CREATE TABLE region (
	vendor_id VARCHAR NOT NULL, 
	region_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	api_reference VARCHAR NOT NULL, 
	status VARCHAR(22) NOT NULL, 
	observed_at DATETIME NOT NULL, 
	PRIMARY KEY (vendor_id, region_id), 
	FOREIGN KEY(vendor_id) REFERENCES vendor (vendor_id)
);
INSERT INTO region VALUES('aws','us-east-1','us-east-1','us-east-1','ACTIVE','2026-11-29 10:00:00.000000');
CREATE TABLE server (
	vendor_id VARCHAR NOT NULL, 
	server_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	api_reference VARCHAR NOT NULL, 
	description VARCHAR, 
	vcpus INTEGER NOT NULL, 
	accelerator_count FLOAT NOT NULL, 
	accelerator_memory_min INTEGER, 
	accelerator_type VARCHAR(3), 
	accelerator_model VARCHAR, 
	accelerators JSON NOT NULL, 
	status VARCHAR(22) NOT NULL, 
	observed_at DATETIME NOT NULL, 
	PRIMARY KEY (vendor_id, server_id)
);
INSERT INTO server VALUES('aws','p5.48xlarge','p5.48xlarge','p5.48xlarge','8 GPUs, ''bare'' metal',192,8.0,81920,'GPU','H100','[{"model":"x"}]','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server VALUES('new','n1','n1','n1','8 GPUs, ''bare'' metal',192,1.0,81920,'GPU','H100','[{"model":"x"}]','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server VALUES('aws','half','half','half','8 GPUs, ''bare'' metal',192,1.5,81920,'GPU','H100','[{"model":"x"}]','ACTIVE','2026-11-29 10:00:00.000000');
CREATE TABLE server_price (
	vendor_id VARCHAR NOT NULL, 
	region_id VARCHAR NOT NULL, 
	zone_id VARCHAR NOT NULL, 
	server_id VARCHAR NOT NULL, 
	operating_system VARCHAR NOT NULL, 
	allocation VARCHAR(8) NOT NULL, 
	unit VARCHAR(8) NOT NULL, 
	price FLOAT NOT NULL, 
	price_upfront FLOAT NOT NULL, 
	price_tiered JSON NOT NULL, 
	currency VARCHAR NOT NULL, 
	status VARCHAR(8) NOT NULL, 
	observed_at DATETIME NOT NULL, 
	PRIMARY KEY (vendor_id, region_id, zone_id, server_id, allocation)
);
INSERT INTO server_price VALUES('aws','us-east-1','z','p9.48xlarge','Linux','SPOT','HOUR',21.4,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','nowhere','z','p5.48xlarge','Linux','SPOT','HOUR',21.4,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','z','p5.48xlarge','Linux','SPOT','HOUR',NULL,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','z','p5.48xlarge','Linux','SPOT','HOUR',0.0,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','z','p5.48xlarge','Linux','SPOT','HOUR',-1.0,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','z','p5.48xlarge','Linux','SPOT','HOUR',9.0e+999,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','z','p5.48xlarge','Linux','SPOT','MONTH',21.4,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','z','p5.48xlarge','Linux','SPOT','HOUR',21.4,100.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','z','p5.48xlarge','Linux','SPOT','HOUR',21.4,0.0,'[]','usd','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1');
INSERT INTO server_price SELECT * FROM server_price;
INSERT INTO server_price VALUES('new','us-east-1','z','n1','Linux','SPOT','HOUR',21.4,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','z','half','Linux','SPOT','HOUR',21.4,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','use1-az1','p5.48xlarge','Linux','SPOT','HOUR',21.4,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
CREATE TABLE _metadata (
	"key" VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO _metadata VALUES('sc_crawler_version','0.10.2');
INSERT INTO _metadata VALUES('published_at','2026-11-29 10:05:11.123456+00:00');
INSERT INTO _metadata VALUES('publisher','Spare Cores');
INSERT INTO _metadata VALUES('license','BSL 1.1');
INSERT INTO _metadata VALUES('license_url','https://sparecores.com/legal/license-bsl');
INSERT INTO _metadata VALUES('additional_use_grant','Internal use is granted.');
INSERT INTO _metadata VALUES('change_date','2030-11-29');
INSERT INTO _metadata VALUES('change_license','CC BY-SA 4.0');
