/// Not a tool, since the model needs one schema.
fn largest<T: Ord>(all: Vec<T>) -> Option<T> {
    all.into_iter().max()
}
::core::compile_error! {
    "a tool cannot be generic, since the model needs one schema; write one function for each type"
}
#[doc(hidden)]
#[allow(non_camel_case_types, dead_code)]
struct largest {}
const _: () = {
    impl __private::PathTool for largest {
        type Parameters = __private::AnyParameters;
        const PARAMETERS: &'static [&'static str] = &[];
        fn tool() -> &'static __private::LinkedTool {
            loop {}
        }
        fn function() -> __private::TypeId {
            loop {}
        }
    }
};
