"""The schema of case files: parsing with places, building, and errors."""
