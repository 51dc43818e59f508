/// Finds an order by its number.
#[tool(effects = "read")]
pub async fn find_order(cx: &Context, number: u64) -> Result<Order, StoreError> {
    load(cx, number).await
}
