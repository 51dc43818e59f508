#[allow(unused_braces, clippy::needless_pass_by_value, clippy::only_used_in_recursion)]
/// Finds an order by its number.
pub async fn find_order(cx: &Context, number: u64) -> Result<Order, StoreError> {
    if let __private::Some(call) = __private::announced::<find_order>() {
        return __private::Box::pin(
                <find_order>::__agentflow_in_step(call, cx, (number,)),
            )
            .await;
    }
    { load(cx, number).await }
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
pub struct find_order {}
#[allow(deprecated, clippy::needless_update)]
const _: () = {
    #[allow(unused_imports)]
    use __private::Probed as _;
    impl __private::ToolFn1 for find_order {
        type A = u64;
        #[allow(clippy::needless_lifetimes)]
        fn call<'agentflow>(
            cx: &'agentflow __private::Context,
            (p0,): (u64,),
        ) -> __private::ToolFuture<'agentflow> {
            __private::ToolFuture::pending(async move {
                ({
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = find_order(
                            <Context as __private::ContextParam>::of(&cx),
                            p0,
                        )
                        .await;
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                })
                    .1
            })
        }
    }
    static __AGENTFLOW_TOOL: __private::LinkedTool = __private::LinkedTool::new(
            "find_order",
            "Finds an order by its number.",
            (__private::file!(), __private::line!()),
            &[__private::Param::new("number", "", __private::Probe::<u64>::FILLED)],
            __private::Options {
                effects: __private::Effects::Read,
                ..__private::Options::DEFAULT
            },
            <find_order as __private::ToolFn1>::BODY,
        )
        .answering(|| {
            #[allow(unused_imports)]
            use __private::answer_schema::*;
            (&&&__private::AnswerType::<Result<Order, StoreError>>::NEW)
                .agentflow_schema()
        });
    impl __private::PathTool for find_order {
        type Parameters = (<Self as __private::ToolFn1>::A,);
        const PARAMETERS: &'static [&'static str] = &["number"];
        fn tool() -> &'static __private::LinkedTool {
            &__AGENTFLOW_TOOL
        }
        fn function() -> __private::TypeId {
            __private::function_id(&find_order)
        }
    }
    impl find_order {
        #[doc(hidden)]
        async fn __agentflow_in_step(
            call: __private::StepToolCall,
            given: &Context,
            (p0,): (u64,),
        ) -> Result<Order, StoreError> {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            let call = call
                .given([("number", (&__private::GivenArgument(&p0)).agentflow_form())]);
            let made = |cx: __private::Context, (p0,): (u64,)| async move {
                {
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = find_order(
                            <Context as __private::ContextParam>::of(&cx),
                            p0,
                        )
                        .await;
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                }
            };
            let form = __private::ReturnForm::of_async(&made);
            call.run(
                    __private::Some(<Context as __private::ContextParam>::given(given)),
                    (p0,),
                    __private::ArgumentCopies::new(
                        |(p0,)| __private::Some((
                            (&__private::GivenArgument(p0)).agentflow_again()?,
                        )),
                        |(p0,), now| (
                            (&__private::GivenArgument(&p0))
                                .agentflow_changed(now, "number")
                                .unwrap_or(p0),
                        ),
                    ),
                    made,
                    ((&&&form).agentflow_answer(), (&&&form).agentflow_error()),
                )
                .await
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& find_order), item : ||
        __private::Box::new(__private::linked:: < find_order > ()), }
    }
};
