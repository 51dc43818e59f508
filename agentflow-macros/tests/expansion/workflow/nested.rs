/// An `if` in an arm of a `match`, with steps in both.
#[workflow]
async fn answer(question: Question) -> Result<String> {
    let kind = classify(question).await?;
    match kind {
        Kind::Order(number) => {
            let order = find_order(number).await?;
            if order.open { track(order).await } else { archive(order).await }
        }
        Kind::Other => Ok("ask a person".to_owned()),
    }
}
