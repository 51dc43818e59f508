/// Finds an order by its number.
#[tool]
async fn find_order(store: Inject<Store>, number: u64) -> Option<Order> {
    store.order(number).await
}
