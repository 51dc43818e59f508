//! Six programs that each add one concept to the previous one. `levels` runs all of them, `levels
//! 3` a single one.
//!
//! Each level is a self-contained file that can be read and copied. The models are scripted, so
//! that it runs offline; `Agent::new("openai/gpt-5-mini")` uses a real model instead.

mod level_0;
mod level_1;
mod level_2;
mod level_3;
mod level_4;
mod level_5;

use std::process::ExitCode;

const LAST: u8 = 5;

async fn run(level: u8) -> Result<String, Box<dyn std::error::Error>> {
    Ok(match level {
        0 => level_0::run().await?,
        1 => level_1::run().await?,
        2 => level_2::run().await?,
        3 => level_3::run().await?,
        4 => level_4::run().await?,
        _ => level_5::run().await?,
    })
}

#[tokio::main]
async fn main() -> ExitCode {
    let wanted = match std::env::args().nth(1).map(|level| level.parse::<u8>()) {
        None => 0..=LAST,
        Some(Ok(level)) if level <= LAST => level..=level,
        Some(_) => {
            eprintln!(
                "usage: levels [LEVEL]\n  LEVEL is a number from 0 to {LAST}; without it all levels run."
            );
            return ExitCode::from(2);
        }
    };
    for level in wanted {
        match run(level).await {
            Ok(line) => println!("level {level}: {line}"),
            Err(problem) => {
                eprintln!("level {level}: {problem}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
