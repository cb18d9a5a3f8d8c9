"""What a viewer gets to see: skeleton of ids, hydration in bulk, one filter, a page."""
