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
INSERT INTO region VALUES('gcp','1000','us-central1','us-central1','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO region VALUES('upcloud','fi-hel2','fi-hel2','fi-hel2','ACTIVE','2026-11-29 10:00:00.000000');
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
INSERT INTO server VALUES('gcp','801208','a3-highgpu-8g','a3-highgpu-8g','8 GPUs, ''bare'' metal',192,8.0,81920,'GPU','H100','[{"model":"x"}]','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server VALUES('azure','Standard_ND96isr_H200_v5','Standard_ND96isr_H200_v5','Standard_ND96isr_H200_v5','8 GPUs, ''bare'' metal',192,8.0,NULL,'GPU',NULL,'[{"model":"x"}]','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server VALUES('upcloud','GPU-8xCPU-64GB-1xL40S','GPU-8xCPU-64GB-1xL40S','GPU-8xCPU-64GB-1xL40S','8 GPUs, ''bare'' metal',192,1.0,46068,'GPU','L40S','[{"model":"x"}]','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server VALUES('aws','g6f.large','g6f.large','g6f.large','8 GPUs, ''bare'' metal',192,0.125,2861,'GPU','L4','[{"model":"x"}]','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO region VALUES('azure','eastus2','eastus2','eastus2','ACTIVE','2026-11-29 10:00:00.000000');
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
INSERT INTO server_price VALUES('aws','us-east-1','use1-az1','p5.48xlarge','Linux','ONDEMAND','HOUR',55.03999999999999915,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','use1-az2','p5.48xlarge','Linux','ONDEMAND','HOUR',55.03999999999999915,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','use1-az1','p5.48xlarge','Linux','SPOT','HOUR',21.4,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','use1-az2','p5.48xlarge','Linux','SPOT','HOUR',20.100000000000001421,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','use1-az2','p5.48xlarge','Linux','RESERVED','HOUR',30.0,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','use1-az2','p5.48xlarge','Windows','ONDEMAND','HOUR',90.0,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('gcp','1000','1001','801208','Linux','ONDEMAND','HOUR',88.489999999999994883,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('azure','eastus2','1','Standard_ND96isr_H200_v5','Linux','ONDEMAND','HOUR',84.799999999999997157,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('upcloud','fi-hel2','fi-hel2','GPU-8xCPU-64GB-1xL40S','Linux','ONDEMAND','HOUR',1.1116070000000000384,0.0,'[]','EUR','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','use1-az1','g6f.large','Linux','ONDEMAND','HOUR',0.20200000000000001287,0.0,'[]','USD','ACTIVE','2026-11-29 10:00:00.000000');
INSERT INTO server_price VALUES('aws','us-east-1','use1-az3','p5.48xlarge','Linux','SPOT','HOUR',1.0,0.0,'[]','USD','INACTIVE','2026-11-29 10:00:00.000000');
CREATE TABLE _metadata (
	"key" VARCHAR NOT NULL, 
	value VARCHAR NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO _metadata VALUES('publisher','Spare Cores');
