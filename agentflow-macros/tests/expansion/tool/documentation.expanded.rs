#[allow(unused_braces, clippy::needless_pass_by_value, clippy::only_used_in_recursion)]
/// First line.
///
///     indented
/// last
fn describe(#[allow(unused)] text: String) {
    if let __private::Some(call) = __private::announced::<describe>() {
        return <describe>::__agentflow_in_step(call, (text,));
    }
    {}
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct describe {}
#[allow(deprecated, clippy::needless_update)]
const _: () = {
    #[allow(unused_imports)]
    use __private::Probed as _;
    impl __private::ToolFn1 for describe {
        type A = String;
        #[allow(unused_variables)]
        #[allow(clippy::needless_lifetimes)]
        fn call<'agentflow>(
            cx: &'agentflow __private::Context,
            (p0,): (String,),
        ) -> __private::ToolFuture<'agentflow> {
            __private::ToolFuture::ready(
                ({
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = describe(p0);
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                })
                    .1,
            )
        }
    }
    static __AGENTFLOW_TOOL: __private::LinkedTool = __private::LinkedTool::new(
        "describe",
        "First line.\n\n    indented\nlast",
        (__private::file!(), __private::line!()),
        &[
            __private::Param::new(
                "text",
                "The text.",
                __private::Probe::<String>::FILLED,
            ),
        ],
        __private::Options {
            sync: true,
            ..__private::Options::DEFAULT
        },
        <describe as __private::ToolFn1>::BODY,
    );
    impl __private::PathTool for describe {
        type Parameters = (<Self as __private::ToolFn1>::A,);
        const PARAMETERS: &'static [&'static str] = &["text"];
        fn tool() -> &'static __private::LinkedTool {
            &__AGENTFLOW_TOOL
        }
        fn function() -> __private::TypeId {
            __private::function_id(&describe)
        }
    }
    impl describe {
        #[doc(hidden)]
        fn __agentflow_in_step(call: __private::StepToolCall, (p0,): (String,)) {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            let call = call
                .given([("text", (&__private::GivenArgument(&p0)).agentflow_form())]);
            let made = |cx: __private::Context, (p0,): (String,)| {
                {
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = describe(p0);
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                }
            };
            let form = __private::ReturnForm::of_sync(&made);
            call.run_now(
                __private::None,
                (p0,),
                |(p0,), now| (
                    (&__private::GivenArgument(&p0))
                        .agentflow_changed(now, "text")
                        .unwrap_or(p0),
                ),
                made,
                ((&&&form).agentflow_answer(), (&&&form).agentflow_error()),
                (&&&form).agentflow_denial(),
            )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& describe), item : ||
        __private::Box::new(__private::linked:: < describe > ()), }
    }
};
