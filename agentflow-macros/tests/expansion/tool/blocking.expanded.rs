#[allow(clippy::needless_pass_by_value)]
/// The words of a file.
fn words(cx: &Context, path: String) -> std::io::Result<usize> {
    Ok(std::fs::read_to_string(path)?.split_whitespace().count())
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct words {}
#[allow(deprecated, clippy::needless_update)]
const _: () = {
    #[allow(unused_imports)]
    use my_agentflow::__private::Probed as _;
    impl my_agentflow::__private::ToolFn1 for words {
        type A = String;
        fn call(
            cx: &my_agentflow::__private::Context,
            (p0,): (String,),
        ) -> my_agentflow::__private::ToolFuture<'_> {
            let cx = my_agentflow::__private::Clone::clone(cx);
            my_agentflow::__private::ToolFuture::blocking(move || {
                {
                    use my_agentflow::__private::{ResultKind as _, ValueKind as _};
                    let value = words(
                        <Context as my_agentflow::__private::ContextParam>::of(&cx),
                        p0,
                    );
                    (&value).agentflow_kind().finish(&value)
                }
            })
        }
    }
    static __AGENTFLOW_TOOL: my_agentflow::__private::LinkedTool = my_agentflow::__private::LinkedTool::new(
        "words",
        "The words of a file.",
        (my_agentflow::__private::file!(), my_agentflow::__private::line!()),
        &[
            my_agentflow::__private::Param::new(
                "path",
                "",
                my_agentflow::__private::Probe::<String>::FILLED,
            ),
        ],
        my_agentflow::__private::Options {
            timeout_ms: my_agentflow::__private::Some(5000u64),
            blocking: true,
            ..my_agentflow::__private::Options::DEFAULT
        },
        <words as my_agentflow::__private::ToolFn1>::BODY,
    );
    impl my_agentflow::__private::PathTool for words {
        fn tool() -> &'static my_agentflow::__private::LinkedTool {
            &__AGENTFLOW_TOOL
        }
    }
    my_agentflow::__private::inventory::submit! {
        my_agentflow::__private::Linked { function : ||
        my_agentflow::__private::function_id(& words), item : ||
        my_agentflow::__private::Box::new(my_agentflow::__private::linked:: < words >
        ()), }
    }
};
