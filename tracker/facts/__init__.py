"""Facts from ``config/``: models, GPUs, formats, throughput points and workloads, validated and joined into one catalogue."""
