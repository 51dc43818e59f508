/// A step for each file.
#[workflow]
async fn notes(files: Vec<String>, rules: Rules) -> Result<Vec<Note>> {
    #[node(concurrency = 2)]
    let notes = map!(files, |file| annotate(file, rules)).await?;
    Ok(notes)
}
