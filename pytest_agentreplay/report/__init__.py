"""What people are told: findings, and how they are rendered."""
