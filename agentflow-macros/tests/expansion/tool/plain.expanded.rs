#[allow(unused_braces, clippy::needless_pass_by_value, clippy::only_used_in_recursion)]
/// Adds two numbers.
fn add(a: i64, b: i64) -> i64 {
    if let __private::Some(call) = __private::announced::<add>() {
        return <add>::__agentflow_in_step(call, (a, b));
    }
    { a + b }
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct add {}
#[allow(deprecated, clippy::needless_update)]
const _: () = {
    #[allow(unused_imports)]
    use __private::Probed as _;
    impl __private::ToolFn2 for add {
        type A = i64;
        type B = i64;
        #[allow(unused_variables)]
        #[allow(clippy::needless_lifetimes)]
        fn call<'agentflow>(
            cx: &'agentflow __private::Context,
            (p0, p1): (i64, i64),
        ) -> __private::ToolFuture<'agentflow> {
            __private::ToolFuture::ready(
                ({
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = add(p0, p1);
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                })
                    .1,
            )
        }
    }
    static __AGENTFLOW_TOOL: __private::LinkedTool = __private::LinkedTool::new(
            "add",
            "Adds two numbers.",
            (__private::file!(), __private::line!()),
            &[
                __private::Param::new("a", "", __private::Probe::<i64>::FILLED),
                __private::Param::new("b", "", __private::Probe::<i64>::FILLED),
            ],
            __private::Options {
                sync: true,
                ..__private::Options::DEFAULT
            },
            <add as __private::ToolFn2>::BODY,
        )
        .answering(|| {
            #[allow(unused_imports)]
            use __private::answer_schema::*;
            (&&&__private::AnswerType::<i64>::NEW).agentflow_schema()
        });
    impl __private::PathTool for add {
        type Parameters = (
            <Self as __private::ToolFn2>::A,
            <Self as __private::ToolFn2>::B,
        );
        const PARAMETERS: &'static [&'static str] = &["a", "b"];
        fn tool() -> &'static __private::LinkedTool {
            &__AGENTFLOW_TOOL
        }
        fn function() -> __private::TypeId {
            __private::function_id(&add)
        }
    }
    impl add {
        #[doc(hidden)]
        fn __agentflow_in_step(
            call: __private::StepToolCall,
            (p0, p1): (i64, i64),
        ) -> i64 {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            let call = call
                .given([
                    ("a", (&__private::GivenArgument(&p0)).agentflow_form()),
                    ("b", (&__private::GivenArgument(&p1)).agentflow_form()),
                ]);
            let made = |cx: __private::Context, (p0, p1): (i64, i64)| {
                {
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = add(p0, p1);
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                }
            };
            let form = __private::ReturnForm::of_sync(&made);
            call.run_now(
                __private::None,
                (p0, p1),
                |(p0, p1), now| (
                    (&__private::GivenArgument(&p0))
                        .agentflow_changed(now, "a")
                        .unwrap_or(p0),
                    (&__private::GivenArgument(&p1))
                        .agentflow_changed(now, "b")
                        .unwrap_or(p1),
                ),
                made,
                ((&&&form).agentflow_answer(), (&&&form).agentflow_error()),
                (&&&form).agentflow_denial(),
            )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& add), item : ||
        __private::Box::new(__private::linked:: < add > ()), }
    }
};
