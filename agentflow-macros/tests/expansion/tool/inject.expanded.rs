#[allow(clippy::needless_pass_by_value)]
/// Finds an order by its number.
async fn find_order(store: Inject<Store>, number: u64) -> Option<Order> {
    store.order(number).await
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
        fn call(
            cx: &__private::Context,
            (p0, p1): (Inject<Store>, u64),
        ) -> __private::ToolFuture<'_> {
            __private::ToolFuture::pending(async move {
                {
                    use __private::{ResultKind as _, ValueKind as _};
                    let value = find_order(p0, p1).await;
                    (&value).agentflow_kind().finish(&value)
                }
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
