#[allow(unused_braces, clippy::needless_pass_by_value, clippy::only_used_in_recursion)]
/// The words of a file.
fn words(cx: &Context, path: String) -> std::io::Result<usize> {
    if let my_agentflow::__private::Some(call) = my_agentflow::__private::announced::<words>() {
        return <words>::__agentflow_in_step(call, cx, (path,));
    }
    { Ok(std::fs::read_to_string(path)?.split_whitespace().count()) }
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
        #[allow(clippy::needless_lifetimes)]
        fn call<'agentflow>(
            cx: &'agentflow my_agentflow::__private::Context,
            (p0,): (String,),
        ) -> my_agentflow::__private::ToolFuture<'agentflow> {
            let cx = my_agentflow::__private::Clone::clone(cx);
            my_agentflow::__private::ToolFuture::blocking(move || {
                ({
                    use my_agentflow::__private::{ResultKind as _, ValueKind as _};
                    let value = words(
                        <Context as my_agentflow::__private::ContextParam>::of(&cx),
                        p0,
                    );
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                })
                    .1
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
                sync: true,
                ..my_agentflow::__private::Options::DEFAULT
            },
            <words as my_agentflow::__private::ToolFn1>::BODY,
        )
        .answering(|| {
            #[allow(unused_imports)]
            use my_agentflow::__private::answer_schema::*;
            (&&&my_agentflow::__private::AnswerType::<std::io::Result<usize>>::NEW)
                .agentflow_schema()
        });
    impl my_agentflow::__private::PathTool for words {
        type Parameters = (<Self as my_agentflow::__private::ToolFn1>::A,);
        const PARAMETERS: &'static [&'static str] = &["path"];
        fn tool() -> &'static my_agentflow::__private::LinkedTool {
            &__AGENTFLOW_TOOL
        }
        fn function() -> my_agentflow::__private::TypeId {
            my_agentflow::__private::function_id(&words)
        }
    }
    impl words {
        #[doc(hidden)]
        fn __agentflow_in_step(
            call: my_agentflow::__private::StepToolCall,
            given: &Context,
            (p0,): (String,),
        ) -> std::io::Result<usize> {
            #[allow(unused_imports)]
            use my_agentflow::__private::call_forms::*;
            let call = call
                .given([
                    (
                        "path",
                        (&my_agentflow::__private::GivenArgument(&p0)).agentflow_form(),
                    ),
                ]);
            let made = |cx: my_agentflow::__private::Context, (p0,): (String,)| {
                {
                    use my_agentflow::__private::{ResultKind as _, ValueKind as _};
                    let value = words(
                        <Context as my_agentflow::__private::ContextParam>::of(&cx),
                        p0,
                    );
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                }
            };
            let form = my_agentflow::__private::ReturnForm::of_sync(&made);
            call.run_now(
                my_agentflow::__private::Some(
                    <Context as my_agentflow::__private::ContextParam>::given(given),
                ),
                (p0,),
                |(p0,), now| (
                    (&my_agentflow::__private::GivenArgument(&p0))
                        .agentflow_changed(now, "path")
                        .unwrap_or(p0),
                ),
                made,
                ((&&&form).agentflow_answer(), (&&&form).agentflow_error()),
                (&&&form).agentflow_denial(),
            )
        }
    }
    my_agentflow::__private::inventory::submit! {
        my_agentflow::__private::Linked { function : ||
        my_agentflow::__private::function_id(& words), item : ||
        my_agentflow::__private::Box::new(my_agentflow::__private::linked:: < words >
        ()), }
    }
};
