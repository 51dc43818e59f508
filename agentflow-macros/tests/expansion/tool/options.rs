/// Refunds an order.
#[tool(
    name = "refund",
    timeout = "30s",
    retry = 2,
    idempotent,
    effects = "write",
    approve,
    scopes(billing, "orders:write"),
    max_output = 1024
)]
async fn refund_order(
    /// The order's number.
    number: u64,
    /// In cents.
    #[tool(default = 0, rename = "amount")]
    cents: u64,
    #[tool(default)] reason: Option<String>,
) -> Result<(), String> {
    pay_back(number, cents, reason).await
}
