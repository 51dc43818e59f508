//! The board: a planner, concurrent specialists, a reviewer with acceptance criteria, and an
//! arbiter. The arbiter hands the conversation off to the owner if it may not decide alone. This
//! module is independent of the model and the terminal.

use agentflow::agent::Team;
use agentflow::artifact::ArtifactRef;
use agentflow::mailbox::Mailbox;
use agentflow::model::ModelSource;
use agentflow::prelude::*;
use agentflow::serde_json::json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of rounds for opinions that were not accepted.
const ROUNDS: u32 = 3;

/// Messages of the specialists and the reviewer to each other and to the arbiter.
static NOTES: Mailbox<Note> =
    Mailbox::new("notes", &["research", "coding", "qa", "reviewer", "arbiter"]);

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Note {
    /// An acceptance criterion that an opinion does not meet.
    Unmet(Unmet),
    /// A remark for the arbiter.
    Aside(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Specialist {
    Research,
    Coding,
    Qa,
}

impl Specialist {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Research => "research",
            Self::Coding => "coding",
            Self::Qa => "qa",
        }
    }
}

/// A question for one specialist.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Assignment {
    pub(crate) by: Specialist,
    pub(crate) question: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Plan {
    pub(crate) assignments: Vec<Assignment>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Opinion {
    /// For the proposal or against it.
    pub(crate) in_favour: bool,
    pub(crate) text: String,
}

/// A question with the opinion of its specialist.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Work {
    pub(crate) assignment: Assignment,
    pub(crate) opinion: Opinion,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Unmet {
    pub(crate) by: Specialist,
    pub(crate) criterion: String,
    pub(crate) why: String,
}

/// Method of checking a criterion.
enum Check {
    Code(fn(&Work) -> bool),
    Judge(&'static str),
}

/// Acceptance criteria in the order of the checks. Code checks them where possible.
const CRITERIA: [(&str, Check); 3] = [
    (
        "it names a figure",
        Check::Code(|work| work.opinion.text.contains(|c: char| c.is_ascii_digit())),
    ),
    ("it is short", Check::Code(|work| work.opinion.text.len() <= 400)),
    ("it says what would change its mind", Check::Judge("Does it say what would change its mind?")),
];

/// State of a review after a round.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Board {
    proposal: String,
    /// Questions for the next round.
    open: Vec<Assignment>,
    accepted: Vec<Work>,
    /// Criteria that were not met in the last round.
    unmet: Vec<Unmet>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Verdict {
    met: bool,
    why: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Decision {
    pub(crate) accept: bool,
    pub(crate) why: String,
}

/// Final result of the run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Report {
    pub(crate) decision: Decision,
    pub(crate) accepted: Vec<Work>,
    /// Criteria that were not met in any round.
    pub(crate) unmet: Vec<Unmet>,
    /// The artifacts that the report was made of, and the report itself, with their versions.
    pub(crate) artifacts: Vec<String>,
}

/// Divide a proposal into questions for specialists: research, coding, qa.
///
/// {proposal}
#[agent(model = "anthropic/claude-sonnet-4-5")]
async fn planner(cx: &Context, proposal: String) -> Result<Plan>;

/// Leave a remark for the arbiter that is not part of the opinion.
#[tool(effects = "none")]
fn remark(cx: &Context, by: Specialist, text: String) -> Result<()> {
    cx.send_mail(&NOTES, by.name(), "arbiter", &Note::Aside(text))
}

/// You are a specialist. Give an opinion on your question in a few sentences, with figures.
/// When the reviewer has refused an opinion of yours, its reasons are given: give a better one.
///
/// You are: {by}. {question}
/// The proposal: {proposal}
/// Refused because: {refused}
#[agent(model = "anthropic/claude-sonnet-4-5", tools = [remark])]
async fn specialist(
    cx: &Context,
    by: Specialist,
    question: String,
    proposal: String,
    refused: Vec<String>,
) -> Result<Opinion>;

/// You check one acceptance criterion of an opinion, and nothing else.
///
/// {criterion}
/// The opinion: {opinion}
#[agent(model = "anthropic/claude-sonnet-4-5")]
async fn judge(cx: &Context, criterion: String, opinion: String) -> Result<Verdict>;

/// The agents that make the final decision. One of them has the conversation at a time.
pub(crate) struct DecidingAgent(Agent<Decision>);

/// Builds the deciding agents. The arbiter decides if all criteria are met. Otherwise it hands the
/// conversation off to the owner, who sees all of it and answers instead.
pub(crate) fn last_word(
    arbiter: impl Into<ModelSource>,
    owner: impl Into<ModelSource>,
) -> Result<DecidingAgent> {
    let arbiter = Agent::new(arbiter)
        .name("arbiter")
        .instruct(
            "You have the last word on a proposal. Weigh the opinions. Where a criterion is not met, do not decide: transfer \
             to the owner.",
        )
        .output::<Decision>();
    let owner = Agent::new(owner).name("owner").instruct(
        "You own the product. The arbiter transfers to you what is not met: say whether the proposal is accepted all the same.",
    );
    Ok(DecidingAgent(Team::new(arbiter, &["owner"]).agent(owner, &[]).build()?))
}

/// A board reviews a proposal.
#[workflow]
pub(crate) async fn review_board(cx: &Context, proposal: String) -> Result<Report> {
    let plan = planner(cx, proposal).await?;
    let first = Board { proposal, open: plan.assignments, accepted: Vec::new(), unmet: Vec::new() };
    let board = repeat!(
        first,
        |board| {
            let worked =
                map!(board.open, |assignment| work(cx, assignment, board.proposal)).await?; // side by side
            let board = review(cx, board, worked).await?;
            board
        },
        until = |board| board.open.is_empty(),
        max = ROUNDS
    )
    .await?;
    let report = decide(cx, board).await?;
    Ok(report)
}

/// Executes one specialist's work in one round. It uses the reviewer's comments on the previous
/// round, and saves the opinion as an artifact.
async fn work(cx: &Context, assignment: Assignment, proposal: String) -> Result<Work> {
    let Assignment { by, question } = &assignment;
    let refused =
        cx.take_mail(&NOTES, by.name())?.into_iter().filter_map(|mail| match mail.message {
            Note::Unmet(Unmet { criterion, why, .. }) => Some(format!("{criterion}: {why}")),
            Note::Aside(_) => None,
        });
    let opinion = specialist(cx, *by, question.clone(), proposal, refused.collect()).await?;
    cx.save_artifact(&artifact(*by), opinion.text.clone(), "text/plain").await?;
    Ok(Work { assignment, opinion })
}

fn artifact(by: Specialist) -> String {
    format!("opinion-{}.txt", by.name())
}

/// Checks the opinions against the criteria. A rejected opinion goes back to its specialist with
/// the reasons.
async fn review(cx: &Context, board: Board, worked: Vec<Work>) -> Result<Board> {
    let mut board = Board { open: Vec::new(), unmet: Vec::new(), ..board };
    for work in worked {
        let by = work.assignment.by;
        let before = board.unmet.len();
        for (criterion, check) in &CRITERIA {
            let Verdict { met, why } = match check {
                Check::Code(check) => Verdict { met: check(&work), why: "it does not".to_owned() },
                Check::Judge(question) => {
                    judge(cx, (*question).to_owned(), work.opinion.text.clone()).await?
                }
            };
            if !met {
                board.unmet.push(Unmet { by, criterion: (*criterion).to_owned(), why });
            }
        }
        match board.unmet.len() == before {
            true => board.accepted.push(work),
            false => board.open.push(work.assignment),
        }
    }
    for Unmet { by, criterion, why } in &board.unmet {
        let unmet = Unmet { by: *by, criterion: criterion.clone(), why: why.clone() };
        cx.send_mail(&NOTES, "reviewer", by.name(), &Note::Unmet(unmet))?;
    }
    Ok(board)
}

/// Combines the results and the artifacts into a report.
async fn decide(cx: &Context, board: Board) -> Result<Report> {
    let Board { accepted, unmet, .. } = board;
    let remarks =
        cx.take_mail(&NOTES, "arbiter")?.into_iter().filter_map(|mail| match mail.message {
            Note::Aside(text) => Some(format!("{}: {text}", mail.from)),
            Note::Unmet(_) => None,
        });
    let remarks: Vec<String> = remarks.collect();
    let opinions: Vec<String> = accepted
        .iter()
        .map(|work| format!("{}: {}", work.assignment.by.name(), work.opinion.text))
        .collect();
    let reasons: Vec<String> =
        unmet.iter().map(|unmet| format!("{}: {}", unmet.by.name(), unmet.criterion)).collect();
    let asked = json!({"opinions": opinions, "not_met": reasons, "remarks": remarks}).to_string();
    let last: Inject<DecidingAgent> = cx.inject()?;
    let decision = last.0.run_in(cx, asked).await?.into_output();

    let mut text =
        format!("{}: {}\n", if decision.accept { "accepted" } else { "refused" }, decision.why);
    let mut artifacts = Vec::new();
    for work in &accepted {
        if let Some(opinion) = cx.artifact(&artifact(work.assignment.by)).await? {
            artifacts.push(versioned(&opinion.reference));
            text += &format!(
                "\n## {}\n{}\n",
                work.assignment.by.name(),
                String::from_utf8_lossy(&opinion.bytes)
            );
        }
    }
    if !remarks.is_empty() {
        text += &format!("\n## remarks\n{}\n", remarks.join("\n"));
    }
    let report = cx.save_artifact("report.md", text, "text/markdown").await?;
    artifacts.push(versioned(&report));
    Ok(Report { decision, accepted, unmet, artifacts })
}

fn versioned(artifact: &ArtifactRef) -> String {
    format!("{} v{}", artifact.name, artifact.version)
}
