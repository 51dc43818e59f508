#[allow(unused_braces, clippy::needless_pass_by_value, clippy::only_used_in_recursion)]
/// Refunds an order.
async fn refund_order(
    number: u64,
    cents: u64,
    reason: Option<String>,
) -> Result<(), String> {
    if let __private::Some(call) = __private::announced::<refund_order>() {
        return __private::Box::pin(
                <refund_order>::__agentflow_in_step(call, (number, cents, reason)),
            )
            .await;
    }
    { pay_back(number, cents, reason).await }
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct refund_order {}
#[allow(deprecated, clippy::needless_update)]
const _: () = {
    #[allow(unused_imports)]
    use __private::Probed as _;
    impl __private::ToolFn3 for refund_order {
        type A = u64;
        type B = u64;
        type C = Option<String>;
        #[allow(unused_variables)]
        #[allow(clippy::needless_lifetimes)]
        fn call<'agentflow>(
            cx: &'agentflow __private::Context,
            (p0, p1, p2): (u64, u64, Option<String>),
        ) -> __private::ToolFuture<'agentflow> {
            __private::ToolFuture::pending(async move {
                ({
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = refund_order(p0, p1, p2).await;
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                })
                    .1
            })
        }
    }
    static __AGENTFLOW_TOOL: __private::LinkedTool = __private::LinkedTool::new(
            "refund",
            "Refunds an order.",
            (__private::file!(), __private::line!()),
            &[
                __private::Param::new(
                    "number",
                    "The order's number.",
                    __private::Probe::<u64>::FILLED,
                ),
                __private::Param::new(
                        "amount",
                        "In cents.",
                        __private::Probe::<u64>::FILLED,
                    )
                    .with_default::<u64>(const { &__private::default_fn(|| 0) }),
                __private::Param::new(
                        "reason",
                        "",
                        __private::Probe::<Option<String>>::FILLED,
                    )
                    .with_default::<Option<String>>(const {
                        &__private::default_fn(|| <Option<String> as __private::Default>::default())
                    }),
            ],
            __private::Options {
                timeout_ms: __private::Some(30000u64),
                retry: 2,
                idempotent: true,
                effects: __private::Effects::Write,
                approve: true,
                scopes: &["billing", "orders:write"],
                max_output: 1024,
                ..__private::Options::DEFAULT
            },
            <refund_order as __private::ToolFn3>::BODY,
        )
        .answering(|| {
            #[allow(unused_imports)]
            use __private::answer_schema::*;
            (&&&__private::AnswerType::<Result<(), String>>::NEW).agentflow_schema()
        });
    impl __private::PathTool for refund_order {
        type Parameters = (
            <Self as __private::ToolFn3>::A,
            <Self as __private::ToolFn3>::B,
            <Self as __private::ToolFn3>::C,
        );
        const PARAMETERS: &'static [&'static str] = &["number", "amount", "reason"];
        fn tool() -> &'static __private::LinkedTool {
            &__AGENTFLOW_TOOL
        }
        fn function() -> __private::TypeId {
            __private::function_id(&refund_order)
        }
    }
    impl refund_order {
        #[doc(hidden)]
        async fn __agentflow_in_step(
            call: __private::StepToolCall,
            (p0, p1, p2): (u64, u64, Option<String>),
        ) -> Result<(), String> {
            #[allow(unused_imports)]
            use __private::call_forms::*;
            let call = call
                .given([
                    ("number", (&__private::GivenArgument(&p0)).agentflow_form()),
                    ("amount", (&__private::GivenArgument(&p1)).agentflow_form()),
                    ("reason", (&__private::GivenArgument(&p2)).agentflow_form()),
                ]);
            let made = |
                cx: __private::Context,
                (p0, p1, p2): (u64, u64, Option<String>)|
            async move {
                {
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = refund_order(p0, p1, p2).await;
                    let answer = (&value).agentflow_kind().finish(&value);
                    (value, answer)
                }
            };
            let form = __private::ReturnForm::of_async(&made);
            call.run(
                    __private::None,
                    (p0, p1, p2),
                    __private::ArgumentCopies::new(
                        |(p0, p1, p2)| __private::Some((
                            (&__private::GivenArgument(p0)).agentflow_again()?,
                            (&__private::GivenArgument(p1)).agentflow_again()?,
                            (&__private::GivenArgument(p2)).agentflow_again()?,
                        )),
                        |(p0, p1, p2), now| (
                            (&__private::GivenArgument(&p0))
                                .agentflow_changed(now, "number")
                                .unwrap_or(p0),
                            (&__private::GivenArgument(&p1))
                                .agentflow_changed(now, "amount")
                                .unwrap_or(p1),
                            (&__private::GivenArgument(&p2))
                                .agentflow_changed(now, "reason")
                                .unwrap_or(p2),
                        ),
                    ),
                    made,
                    ((&&&form).agentflow_answer(), (&&&form).agentflow_error()),
                )
                .await
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& refund_order), item :
        || __private::Box::new(__private::linked:: < refund_order > ()), }
    }
};
