/// Not a tool, since the model needs one schema.
#[tool]
fn largest<T: Ord>(all: Vec<T>) -> Option<T> {
    all.into_iter().max()
}
