"""The order of records: samplers, and the schedule that cuts their order into batches."""
