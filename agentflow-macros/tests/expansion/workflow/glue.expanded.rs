/// A `let` without a step is repeated by its readers, also after a name is bound again. One that nothing reads is written
/// once, for the compiler's warnings.
#[allow(clippy::used_underscore_binding)]
async fn glue(a: String, b: u32) -> Result<String> {
    <glue as __private::WorkflowFn2>::run(__private::None, (a, b)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct glue {}
#[allow(deprecated)]
const _: () = {
    impl __private::WorkflowTypes for glue {
        type Ok = <Result<String> as __private::WorkflowReturn>::Ok;
        type Error = <Result<String> as __private::WorkflowReturn>::Error;
    }
    impl glue {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(String, u32), <glue as __private::WorkflowTypes>::Ok> {
            <glue as __private::WorkflowFn2>::workflow()
        }
    }
    impl __private::WorkflowFn2 for glue {
        type A = String;
        type B = u32;
        type Return = __private::Result<
            <glue as __private::WorkflowTypes>::Ok,
            <glue as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "glue";
        const INPUTS: [&'static str; 2usize] = ["a", "b"];
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(String, u32), <glue as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(String, u32), <glue as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        #[allow(
            clippy::needless_question_mark,
            clippy::too_many_lines,
            clippy::zero_prefixed_literal
        )]
        fn nodes(
            steps: &mut __private::Steps<'_, <glue as __private::WorkflowTypes>::Error>,
            (a, b): (__private::Handle<String>, __private::Handle<u32>),
        ) -> __private::Handle<<glue as __private::WorkflowTypes>::Ok> {
            type __AgentflowError = <glue as __private::WorkflowTypes>::Error;
            steps
                .describe(
                    "A `let` without a step is repeated by its readers, also after a name is bound again. One that nothing reads is written\nonce, for the compiler's warnings.",
                );
            let output_4 = steps
                .call::<_, _, _, _>(
                    __private::Node::new("x_y").line(::core::line!()).calls("pair"),
                    (a,),
                    move |args| async move {
                        let agentflow_step = pair;
                        #[allow(unused_variables, unused_mut)]
                        let (cx, (a,)) = args.calling(&agentflow_step).await;
                        __private::Ok::<_, __AgentflowError>(agentflow_step(a).await?)
                    },
                );
            let a_7 = steps
                .call::<_, _, _, _>(
                    __private::Node::new("second").line(::core::line!()).calls("step"),
                    (a, b, output_4),
                    move |args| async move {
                        let agentflow_step = step;
                        #[allow(unused_variables, unused_mut)]
                        let (cx, (a, b, output_4)) = args.calling(&agentflow_step).await;
                        #[allow(unused_variables, unused_mut)]
                        let length = a.len() + b;
                        #[allow(unused_variables, unused_mut)]
                        let (x, y) = output_4;
                        #[allow(unused_variables, unused_mut)]
                        let text = format!("{length} {y}");
                        __private::Ok::<_, __AgentflowError>(agentflow_step(text).await?)
                    },
                );
            let last = steps
                .call::<_, _, _, _>(
                    __private::Node::new("last").line(::core::line!()).calls("step"),
                    (a, b, a_7),
                    move |args| async move {
                        let agentflow_step = step;
                        #[allow(unused_variables, unused_mut)]
                        let (cx, (value_0, value_1, value_7)) = args
                            .calling(&agentflow_step)
                            .await;
                        #[allow(unused_variables, unused_mut)]
                        let a = value_0;
                        #[allow(unused_variables, unused_mut)]
                        let b = value_1;
                        #[allow(unused_variables, unused_mut)]
                        let length = a.len() + b;
                        #[allow(unused_variables, unused_mut)]
                        let a = value_7;
                        __private::Ok::<_, __AgentflowError>(agentflow_step(a, length).await?)
                    },
                );
            steps
                .value::<_, _, _>(
                    __private::Node::new("output").line(::core::line!()),
                    (a, last),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (a, last) = values;
                        let unread = a.len();
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<String> = Ok(last);
                            ended
                        }
                    },
                )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& glue), item : ||
        __private::Box::new(__private::LinkedWorkflow::new("glue", (__private::file!(),
        __private::line!()), < glue as __private::WorkflowFn2 > ::GRAPH)), }
    }
};
