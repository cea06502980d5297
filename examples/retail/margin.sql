WITH baskets AS (
  SELECT order_id, MIN(store_id) AS store_id, SUM(quantity) AS items, SUM(quantity * price) AS amount,
         SUM(quantity * purchase_price) AS spent
  FROM sales JOIN products ON sales.product_id = products.product_id
  GROUP BY order_id
)
SELECT region, format, COUNT(*) AS orders, SUM(items) AS items, SUM(amount) AS sold, COUNT(refund) AS returned,
       SUM(amount - spent - COALESCE(refund, 0)) AS margin
FROM baskets
LEFT JOIN returns ON baskets.order_id = returns.order_id
JOIN stores ON baskets.store_id = stores.store_id
GROUP BY region, format
ORDER BY region, format
