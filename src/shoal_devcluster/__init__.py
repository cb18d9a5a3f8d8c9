"""A development cluster on one machine, with starters of its engines."""
