"""What may be stored: secrets, people, places, and the policies of a project."""
