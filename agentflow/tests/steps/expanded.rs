//! Hand-written workflows in the form to which `#[workflow]` expands. Each use of `expanded!` is the
//! expansion of the source in its comment. The attribute is not used, so a failure is a mistake in
//! the library.

/// Implements the trait of a workflow with one input for a type with the workflow's name.
macro_rules! expanded {
    ($name:ident, $input:ty => $ok:ty, $nodes:expr) => {
        #[allow(non_camel_case_types)]
        pub(crate) struct $name {}

        impl agentflow::__private::WorkflowFn1 for $name {
            type A = $input;
            type Return = agentflow::Result<$ok>;
            const NAME: &'static str = stringify!($name);
            const INPUTS: [&'static str; 1] = ["n"];

            fn cell() -> &'static std::sync::OnceLock<agentflow::Workflow<($input,), $ok>> {
                static CELL: std::sync::OnceLock<agentflow::Workflow<($input,), $ok>> =
                    std::sync::OnceLock::new();
                &CELL
            }

            fn error_form() -> agentflow::__private::ErrorForm<agentflow::Result<()>> {
                use agentflow::__private::call_forms::*;
                (&&&agentflow::__private::ReturnForm::<agentflow::Result<()>>::of_type())
                    .agentflow_error()
            }

            fn nodes(
                steps: &mut agentflow::__private::Steps<'_, agentflow::Error>,
                (n,): (agentflow::__private::Handle<$input>,),
            ) -> agentflow::__private::Handle<$ok> {
                let nodes: fn(&mut crate::Steps<'_>, crate::Handle<$input>) -> crate::Handle<$ok> =
                    $nodes;
                nodes(steps, n)
            }
        }

        impl $name {
            #[allow(dead_code)]
            pub(crate) fn workflow() -> agentflow::Workflow<($input,), $ok> {
                <Self as agentflow::__private::WorkflowFn1>::workflow()
            }

            #[allow(dead_code)]
            pub(crate) async fn call(
                cx: Option<&agentflow::Context>,
                n: $input,
            ) -> agentflow::Result<$ok> {
                <Self as agentflow::__private::WorkflowFn1>::run(cx, (n,)).await
            }
        }
    };
}

pub(crate) use expanded;
