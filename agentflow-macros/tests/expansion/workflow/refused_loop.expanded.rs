#[allow(unused_variables, unused_mut, unused_must_use, clippy::unused_async)]
/// Not a workflow, since a loop has no fixed graph.
async fn crawl(urls: Vec<String>) -> Result<()> {
    for url in urls {
        fetch(url).await?;
    }
    Ok(())
}
::core::compile_error! {
    "a loop has no fixed graph; run a step for each item with `map!(items, |item| step(item)).await?`, or move the loop into a step"
}
#[doc(hidden)]
#[allow(non_camel_case_types, dead_code)]
struct crawl {}
const _: () = {
    impl crawl {
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(Vec<String>,), <Result<()> as __private::WorkflowReturn>::Ok> {
            loop {}
        }
    }
};
