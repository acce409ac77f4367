UPDATE visitors SET sketch = dc_hll_add(sketch, nextval('items')) WHERE key = 'page 7';
