#[allow(unused_braces, clippy::needless_pass_by_value, clippy::only_used_in_recursion)]
/// Finds an order by its number.
async fn find_order(store: Inject<Store>, number: u64) -> Option<Order> {
    if let __private::Some(call) = __private::announced::<find_order>() {
        return __private::Box::pin(
                <find_order>::__agentflow_in_step(call, (store, number)),
            )
            .await;
    }
    { store.order(number).await }
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct find_order {}
#[allow(deprecated, clippy::needless_update)]
const _: () = {
    #[allow(unused_imports)]
    use __private::Probed as _;
    impl __private::ToolFn2 for find_order {
        type A = Inject<Store>;
        type B = u64;
        #[allow(unused_variables)]
        #[allow(clippy::needless_lifetimes)]
        fn call<'agentflow>(
            cx: &'agentflow __private::Context,
            (p0, p1): (Inject<Store>, u64),
        ) -> __private::ToolFuture<'agentflow> {
            __private::ToolFuture::pending(async move {
                ({
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = find_order(p0, p1).await;
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
            &[
                __private::Param::new(
                    "store",
                    "",
                    __private::Probe::<Inject<Store>>::FILLED,
                ),
                __private::Param::new("number", "", __private::Probe::<u64>::FILLED),
            ],
            __private::Options::DEFAULT,
            <find_order as __private::ToolFn2>::BODY,
        )
        .answering(|| {
            #[allow(unused_imports)]
            use __private::answer_schema::*;
            (&&&__private::AnswerType::<Option<Order>>::NEW).agentflow_schema()
        });
    impl __private::PathTool for find_order {
        type Parameters = (
            <Self as __private::ToolFn2>::A,
            <Self as __private::ToolFn2>::B,
        );
        const PARAMETERS: &'static [&'static str] = &["store", "number"];
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
            (p0, p1): (Inject<Store>, u64),
        ) -> Option<Order> {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            let call = call
                .given([
                    ("store", (&__private::GivenArgument(&p0)).agentflow_form()),
                    ("number", (&__private::GivenArgument(&p1)).agentflow_form()),
                ]);
            let made = |cx: __private::Context, (p0, p1): (Inject<Store>, u64)| async move {
                {
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = find_order(p0, p1).await;
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                }
            };
            let form = __private::ReturnForm::of_async(&made);
            call.run(
                    __private::None,
                    (p0, p1),
                    __private::ArgumentCopies::new(
                        |(p0, p1)| __private::Some((
                            (&__private::GivenArgument(p0)).agentflow_again()?,
                            (&__private::GivenArgument(p1)).agentflow_again()?,
                        )),
                        |(p0, p1), now| (
                            (&__private::GivenArgument(&p0))
                                .agentflow_changed(now, "store")
                                .unwrap_or(p0),
                            (&__private::GivenArgument(&p1))
                                .agentflow_changed(now, "number")
                                .unwrap_or(p1),
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
