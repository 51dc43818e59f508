//! A campaign: generates programs, compiles and runs them in batches, and reports which were
//! accepted and which behave differently.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentflow::serde_json::Value;
use fastrand::Rng;

use super::choose;
use super::compile::{CompiledBatch, Libraries};
use super::kit::Class;
use super::shrink;
use super::syntax::Program;
use super::vocabulary::FEATURES;

/// Settings of a campaign.
#[derive(Clone, Debug)]
pub(crate) struct Campaign {
    pub(crate) seed: u64,
    pub(crate) programs: usize,
    /// Maximum number of statements of a program, without those in blocks.
    pub(crate) size: usize,
    /// Number of programs that are compiled together.
    pub(crate) batch: usize,
    pub(crate) schedules: usize,
    pub(crate) crashes: usize,
    pub(crate) jobs: usize,
    /// Features that the programs must not use.
    pub(crate) without: BTreeSet<String>,
}

/// A difference between a program's function and its workflow.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) program: String,
    pub(crate) class: String,
    pub(crate) text: String,
    pub(crate) how: String,
}

/// Results of a campaign.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) accepted: usize,
    pub(crate) runs: u64,
    pub(crate) crashes: u64,
    pub(crate) failing: u64,
    pub(crate) entries: u64,
    /// Refused programs by the first line of the compiler's message: their number and an example.
    pub(crate) refused: BTreeMap<String, (usize, String)>,
    pub(crate) refused_programs: usize,
    /// Log of the first differing run of each program.
    pub(crate) journals: BTreeMap<String, Vec<String>>,
    /// Faults of the generator.
    pub(crate) broken: Vec<String>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) compiling: Duration,
    pub(crate) running: Duration,
}

impl Campaign {
    /// Generates the program with this number. It does not depend on the other programs of the
    /// campaign.
    pub(crate) fn program(&self, number: usize) -> Program {
        let mut rng = Rng::with_seed(self.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        choose::program(&mut rng, &format!("p{number}"), self.size, &self.without)
    }

    /// Runs the campaign on several threads.
    pub(crate) fn run(&self, libraries: &Libraries) -> Findings {
        let known = |name: &&String| FEATURES.contains(&name.as_str());
        let unknown: Vec<&String> = self.without.iter().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "there are no features {unknown:?}; there are {FEATURES:?}");
        let next = AtomicUsize::new(0);
        let findings = Mutex::new(Findings::default());
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    loop {
                        let first = next.fetch_add(self.batch, Ordering::SeqCst);
                        if first >= self.programs {
                            return;
                        }
                        let programs: Vec<Program> = (first..self.programs.min(first + self.batch))
                            .map(|number| self.program(number))
                            .collect();
                        let found = self.batch(
                            libraries,
                            &format!("batch-{}-{first}", std::process::id()),
                            &programs,
                        );
                        let mut all = findings.lock().expect("no thread has panicked");
                        if self.programs > 2 * self.batch {
                            for (class, programs) in found.by_class() {
                                eprintln!(
                                    "{class}: {}",
                                    programs.into_iter().collect::<Vec<_>>().join(", ")
                                );
                            }
                        }
                        all.add(found);
                        if self.programs > 2 * self.batch {
                            let faulty: BTreeSet<&str> =
                                all.faults.iter().map(|fault| fault.program.as_str()).collect();
                            eprintln!(
                                "{:?}: {} accepted, {} refused, {} differ",
                                began.elapsed(),
                                all.accepted,
                                all.refused_programs,
                                faulty.len()
                            );
                        }
                    }
                });
            }
        });
        findings.into_inner().expect("no thread has panicked")
    }

    /// Compiles and runs some programs.
    pub(crate) fn batch(
        &self,
        libraries: &Libraries,
        name: &str,
        programs: &[Program],
    ) -> Findings {
        let CompiledBatch { executable, refused, took, .. } = libraries.compile(name, programs);
        let mut found = Findings {
            compiling: took,
            refused_programs: refused.workflows.len(),
            ..Findings::default()
        };
        for (program, messages) in &refused.workflows {
            let first = messages[0].lines().next().unwrap_or_default().to_owned();
            found
                .refused
                .entry(first)
                .or_insert_with(|| (0, format!("{program}:\n{}", messages[0])))
                .0 += 1;
        }
        for (program, messages) in &refused.functions {
            found
                .broken
                .push(format!("the function of {program} does not compile: {}", messages[0]));
        }
        found.broken.extend(
            refused.others.iter().map(|text| format!("the batch does not compile: {text}")),
        );
        if let Some(executable) = executable {
            let began = Instant::now();
            let effort = [self.seed, self.schedules as u64, self.crashes as u64]
                .map(|number| number.to_string());
            let child = Command::new(executable)
                .args(effort)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("a batch can be started");
            let output = child.wait_with_output().expect("a batch ends");
            found.running = began.elapsed();
            found.read(&String::from_utf8_lossy(&output.stdout));
            let gone = refused.workflows.len() + refused.functions.len();
            if !output.status.success() || found.accepted + gone < programs.len() {
                found.broken.push(format!(
                    "the batch ended with {} after {} programs",
                    output.status, found.accepted
                ));
            }
        }
        libraries.forget(name);
        found
    }

    /// Returns a smaller program that differs in the same way, after at most `rounds` rounds of
    /// compiling.
    pub(crate) fn shrink(
        &self,
        libraries: &Libraries,
        program: &Program,
        class: &str,
        rounds: usize,
    ) -> Program {
        let mut smallest = program.clone();
        for round in 0..rounds {
            let candidates: Vec<Program> = shrink::smaller(&smallest)
                .iter()
                .take(16)
                .enumerate()
                .map(|(at, candidate)| {
                    shrink::renamed(candidate, &format!("{}x{round}y{at}", program.name))
                })
                .collect();
            let found = self.batch(
                libraries,
                &format!("shrink-{}-{}", std::process::id(), program.name),
                &candidates,
            );
            let differs = |name: &str| {
                found.faults.iter().any(|fault| fault.program == name && fault.class == class)
            };
            // Candidates are sorted by size, smallest first.
            match candidates.into_iter().find(|candidate| differs(&candidate.name)) {
                Some(smaller) => smallest = smaller,
                None => break,
            }
        }
        smallest
    }
}

impl Findings {
    fn read(&mut self, lines: &str) {
        for line in lines.lines() {
            let Ok(seen) = line.parse::<Value>() else { continue };
            let program = seen["program"].as_str().unwrap_or_default().to_owned();
            self.accepted += 1;
            let number = |name: &str| seen[name].as_u64().unwrap_or(0);
            self.runs += number("runs");
            self.crashes += number("crashes");
            self.failing += number("failing");
            self.entries += number("entries");
            if seen["panicked"] == true {
                let text = "the player panicked".to_owned();
                self.faults.push(Fault {
                    program,
                    class: Class::Machine.to_string(),
                    text,
                    how: String::new(),
                });
                continue;
            }
            let lines: Vec<String> = seen["journal"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|line| line.as_str().map(str::to_owned))
                .collect();
            if !lines.is_empty() {
                self.journals.insert(program.clone(), lines);
            }
            for difference in seen["differences"].as_array().into_iter().flatten() {
                let part = |at: usize| difference[at].as_str().unwrap_or_default().to_owned();
                self.faults.push(Fault {
                    program: program.clone(),
                    class: part(0),
                    text: part(1),
                    how: part(2),
                });
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.runs += other.runs;
        self.crashes += other.crashes;
        self.failing += other.failing;
        self.entries += other.entries;
        self.refused_programs += other.refused_programs;
        for (message, (count, example)) in other.refused {
            self.refused.entry(message).or_insert((0, example)).0 += count;
        }
        self.journals.extend(other.journals);
        self.broken.extend(other.broken);
        self.faults.extend(other.faults);
        self.compiling += other.compiling;
        self.running += other.running;
    }

    /// Returns the differing programs by the class of their first difference.
    pub(crate) fn by_class(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut classes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for fault in &self.faults {
            classes.entry(&fault.class).or_default().insert(&fault.program);
        }
        classes
    }

    /// Formats the findings.
    pub(crate) fn report(&self) -> String {
        let mut text = format!(
            "{} programs accepted, {} refused; {} runs with {} crashes, {} inputs whose function fails, {} things \
             happened in the functions; compiled in {:?}, run in {:?}\n",
            self.accepted,
            self.refused_programs,
            self.runs,
            self.crashes,
            self.failing,
            self.entries,
            self.compiling,
            self.running
        );
        let mut refused: Vec<_> = self.refused.iter().collect();
        refused.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        for (message, (count, _)) in refused {
            let _ = writeln!(text, "refused {count} times: {message}");
        }
        for (class, programs) in self.by_class() {
            let some: Vec<&str> = programs.iter().copied().take(8).collect();
            let _ =
                writeln!(text, "{class}: {} programs, such as {}", programs.len(), some.join(", "));
        }
        for text_of in &self.broken {
            let _ = writeln!(text, "a fault of the generator: {text_of}");
        }
        text
    }
}
