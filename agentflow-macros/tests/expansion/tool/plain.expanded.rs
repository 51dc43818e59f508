#[allow(clippy::needless_pass_by_value)]
/// Adds two numbers.
fn add(a: i64, b: i64) -> i64 {
    a + b
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
        fn call(
            cx: &__private::Context,
            (p0, p1): (i64, i64),
        ) -> __private::ToolFuture<'_> {
            __private::ToolFuture::ready({
                use __private::{ResultKind as _, ValueKind as _};
                let value = add(p0, p1);
                (&value).agentflow_kind().finish(&value)
            })
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
        __private::Options::DEFAULT,
        <add as __private::ToolFn2>::BODY,
    );
    impl __private::PathTool for add {
        fn tool() -> &'static __private::LinkedTool {
            &__AGENTFLOW_TOOL
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& add), item : ||
        __private::Box::new(__private::linked:: < add > ()), }
    }
};
