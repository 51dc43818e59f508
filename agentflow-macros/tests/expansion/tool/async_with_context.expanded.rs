#[allow(clippy::needless_pass_by_value)]
/// Finds an order by its number.
pub async fn find_order(cx: &Context, number: u64) -> Result<Order, StoreError> {
    load(cx, number).await
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
        fn call(cx: &__private::Context, (p0,): (u64,)) -> __private::ToolFuture<'_> {
            __private::ToolFuture::pending(async move {
                {
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = find_order(
                            <Context as __private::ContextParam>::of(&cx),
                            p0,
                        )
                        .await;
                    (&value).agentflow_kind().finish(&value)
                }
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
    );
    impl __private::PathTool for find_order {
        fn tool() -> &'static __private::LinkedTool {
            &__AGENTFLOW_TOOL
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& find_order), item : ||
        __private::Box::new(__private::linked:: < find_order > ()), }
    }
};
