/// First line.
///
///     indented
#[doc = " last "]
#[tool]
fn describe(
    /// The text.
    #[allow(unused)]
    text: String,
) {
}
