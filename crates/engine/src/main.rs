//! The program `longboat-engine`: a model server that computes on the CPU.
//!
//! It is a separate program because its numeric libraries take longer to build than the rest of Longboat. `longboat engine`
//! starts it, and a local node runs it instead of `vllm`.

use std::{
    error::Error,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
};

use longboat_accept::POD_ADDRESS_VARIABLE;
use longboat_engine::{Args, ENGINE_VERSION, HELP, TEMPLATE_ROLE, render_template};
use longboat_telemetry::logging::{self, Format, LogOptions};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The variable with candle's number of threads.
const THREADS: &str = "CANDLE_NUM_THREADS";

fn main() -> ExitCode {
    longboat_tls::install_default_provider();
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut renders = false;
    match arguments.first().map(String::as_str) {
        Some("--help" | "-h" | "help") => {
            return print(&format!("Usage: longboat-engine MODEL [FLAGS]\n\n{HELP}"));
        }
        Some("--version" | "-v") => return print(ENGINE_VERSION),
        Some("check") => return check(&arguments[1..]),
        Some(TEMPLATE_ROLE) => {
            return render_template().map_or_else(|error| fail(&error), |()| ExitCode::SUCCESS);
        }
        // Like `vllm serve MODEL`.
        Some("serve") => drop(arguments.remove(0)),
        // Like `vllm launch render MODEL`.
        Some("launch") if arguments.get(1).is_some_and(|component| component == "render") => {
            drop(arguments.drain(..2));
            renders = true;
        }
        _ => {}
    }
    if let Some(address) = std::env::var(POD_ADDRESS_VARIABLE).ok().filter(|address| !address.is_empty()) {
        arguments.extend(["--host".to_owned(), address]);
    }
    let args = match Args::parse_with(&arguments, &|name| std::env::var(name).ok()) {
        Ok(args) => args,
        Err(error) => return fail(&error),
    };
    let args = match std::env::current_exe() {
        Ok(program) => args.with_program(program),
        Err(error) => return fail(&error),
    };
    if let Err(error) = with_threads(args.threads()) {
        return fail(&error);
    }
    logging::init(&LogOptions { format: Format::of_environment(), ..LogOptions::default() }, None);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match runtime.block_on(serve(args, renders)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error.as_ref()),
    }
}

/// Restarts this program if candle would use another number of threads, because candle reads the number only from the
/// environment. Errors of `llguidance` are wrapped at each level of a grammar, and would record the whole stack each time: with
/// `RUST_BACKTRACE`, a grammar of 10,000 rules then took 30 s.
fn with_threads(threads: usize) -> io::Result<()> {
    let threads = threads.to_string();
    if std::env::var(THREADS).is_ok_and(|set| set == threads) {
        return Ok(());
    }
    let mut program = Command::new(std::env::current_exe()?);
    program.args(std::env::args_os().skip(1)).env(THREADS, threads);
    Err(program.env("RUST_LIB_BACKTRACE", "0").exec())
}

async fn serve(args: Args, renders: bool) -> Result<(), Box<dyn Error>> {
    let shutdown = longboat_accept::shutdown_token()?;
    if renders {
        longboat_engine::render(args, shutdown).await?;
    } else {
        longboat_engine::run(args, shutdown).await?;
    }
    Ok(())
}

/// `check MODEL [BYTES]`: checks whether this machine can serve a model. The weights may not be fetched yet.
fn check(arguments: &[String]) -> ExitCode {
    let (model, bytes) = match arguments {
        [model] => (model, None),
        [model, bytes] => (model, bytes.parse().ok()),
        _ => return fail(<Box<dyn Error>>::from("expected `longboat-engine check MODEL [BYTES]`").as_ref()),
    };
    match longboat_engine::check(Path::new(model), bytes) {
        Ok(sentence) => print(&sentence),
        Err(error) => fail(&error),
    }
}

#[expect(clippy::print_stdout, reason = "a program's answer")]
fn print(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

/// Prints an error with its causes.
#[expect(clippy::print_stderr, reason = "a program's error")]
fn fail(error: &(dyn Error + 'static)) -> ExitCode {
    eprintln!("error: {}", longboat_tls::chain(error));
    ExitCode::FAILURE
}
