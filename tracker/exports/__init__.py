"""The book and its history for other programs: tables (CSV, JSON lines, Parquet) and Prometheus's past (OpenMetrics)."""
