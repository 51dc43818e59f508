/// The words of a file.
#[tool(blocking, timeout = "5s", crate = my_agentflow)]
fn words(cx: &Context, path: String) -> std::io::Result<usize> {
    Ok(std::fs::read_to_string(path)?.split_whitespace().count())
}
