"""What is measured, one module a measure. Each checks its work before a figure counts."""
