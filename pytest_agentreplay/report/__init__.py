"""What is reported: findings, and how they are rendered."""
