/// The other forms.
#[allow(clippy::used_underscore_binding)]
async fn forms(draft: String) -> Result<String> {
    <forms as __private::WorkflowFn1>::run(__private::None, (draft,)).await
}
#[doc(hidden)]
#[allow(
    non_camel_case_types,
    dead_code,
    missing_debug_implementations,
    missing_copy_implementations
)]
struct forms {}
#[allow(deprecated)]
const _: () = {
    impl __private::WorkflowTypes for forms {
        type Ok = <Result<String> as __private::WorkflowReturn>::Ok;
        type Error = <Result<String> as __private::WorkflowReturn>::Error;
    }
    impl forms {
        /// The workflow, to start it on a runtime or to look at its graph; built when it is first asked for.
        #[must_use]
        #[allow(dead_code)]
        fn workflow() -> __private::Workflow<(String,), <forms as __private::WorkflowTypes>::Ok> {
            <forms as __private::WorkflowFn1>::workflow()
        }
    }
    impl __private::WorkflowFn1 for forms {
        type A = String;
        type Return = __private::Result<
            <forms as __private::WorkflowTypes>::Ok,
            <forms as __private::WorkflowTypes>::Error,
        >;
        const NAME: &'static str = "forms";
        const INPUTS: [&'static str; 1usize] = ["draft"];
        fn cell() -> &'static __private::OnceLock<
            __private::Workflow<(String,), <forms as __private::WorkflowTypes>::Ok>,
        > {
            static WORKFLOW: __private::OnceLock<
                __private::Workflow<(String,), <forms as __private::WorkflowTypes>::Ok>,
            > = __private::OnceLock::new();
            &WORKFLOW
        }
        #[allow(
            clippy::needless_question_mark,
            clippy::too_many_lines,
            clippy::zero_prefixed_literal
        )]
        fn nodes(
            steps: &mut __private::Steps<'_, <forms as __private::WorkflowTypes>::Error>,
            (draft,): (__private::Handle<String>,),
        ) -> __private::Handle<<forms as __private::WorkflowTypes>::Ok> {
            type __AgentflowError = <forms as __private::WorkflowTypes>::Error;
            steps.describe("The other forms.");
            let first = {
                let branches = __private::branches::<_>();
                let branch = steps
                    .branch_call::<_, _, _, _>(
                        "fast",
                        (draft,),
                        move |args| async move {
                            let agentflow_step = fast;
                            #[allow(unused_variables, unused_mut)]
                            let (cx, (draft,)) = args.calling(&agentflow_step).await;
                            __private::Ok::<_, __AgentflowError>(agentflow_step(draft).await?)
                        },
                    );
                let branches = __private::Branches::branch(branches, branch);
                let branch = steps
                    .branch_call::<_, _, _, _>(
                        "good",
                        (draft,),
                        move |args| async move {
                            let agentflow_step = good;
                            #[allow(unused_variables, unused_mut)]
                            let (cx, (draft,)) = args.calling(&agentflow_step).await;
                            __private::Ok::<_, __AgentflowError>(agentflow_step(draft).await?)
                        },
                    );
                let branches = __private::Branches::branch(branches, branch);
                steps.race(__private::Node::new("first").line(::core::line!()), branches)
            };
            let second = {
                let branches = __private::branches::<_>();
                let branch = steps
                    .branch_call::<_, _, _, _>(
                        "one",
                        (first,),
                        move |args| async move {
                            let agentflow_step = one;
                            #[allow(unused_variables, unused_mut)]
                            let (cx, (first,)) = args.calling(&agentflow_step).await;
                            __private::Ok::<_, __AgentflowError>(agentflow_step(first).await?)
                        },
                    );
                let branches = __private::Branches::branch(branches, branch);
                let branch = steps
                    .branch_call::<_, _, _, _>(
                        "two",
                        (first,),
                        move |args| async move {
                            let agentflow_step = two;
                            #[allow(unused_variables, unused_mut)]
                            let (cx, (first,)) = args.calling(&agentflow_step).await;
                            __private::Ok::<_, __AgentflowError>(agentflow_step(first).await?)
                        },
                    );
                let branches = __private::Branches::branch(branches, branch);
                steps
                    .fallback(
                        __private::Node::new("second").line(::core::line!()),
                        branches,
                    )
            };
            let third = {
                let first = second;
                steps
                    .repeat_call(
                        __private::Node::new("third")
                            .line(::core::line!())
                            .calls("improve"),
                        first,
                        (),
                        (5, |text| text.good),
                        move |args| async move {
                            let agentflow_step = improve;
                            #[allow(unused_variables, unused_mut)]
                            let (cx, (item, ())) = args.calling(&agentflow_step).await;
                            let text = item;
                            __private::Ok::<_, __AgentflowError>(agentflow_step(text).await?)
                        },
                    )
            };
            let fourth = steps
                .call::<_, _, _, _>(
                    __private::Node::new("fourth")
                        .line(::core::line!())
                        .calls("check")
                        .timeout(__private::Duration::from_millis(30000u64)),
                    (third,),
                    move |args| async move {
                        let agentflow_step = check;
                        #[allow(unused_variables, unused_mut)]
                        let (cx, (third,)) = args.calling(&agentflow_step).await;
                        __private::Ok::<_, __AgentflowError>(agentflow_step(third).await?)
                    },
                );
            steps
                .value::<_, _, _>(
                    __private::Node::new("output").line(::core::line!()),
                    (fourth,),
                    move |values| {
                        #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                        let (fourth,) = values;
                        #[allow(clippy::let_and_return)]
                        {
                            let ended: Result<String> = Ok(fourth);
                            ended
                        }
                    },
                )
        }
    }
    __private::inventory::submit! {
        __private::Linked { function : || __private::function_id(& forms), item : ||
        __private::Box::new(__private::LinkedWorkflow::new("forms", (__private::file!(),
        __private::line!()), < forms as __private::WorkflowFn1 > ::GRAPH)), }
    }
};
