//! Measures how fast a simulation is: `cargo run --release -p longboat-simulate --example speed -- KIND ENDPOINTS RATE REQUESTS`.
//! KIND is that of the traffic: poisson, bursts, sessions, agents or documents.
//!
//! Prints the seconds that the run took, the virtual seconds, and the requests in a second of the processor.
#![expect(clippy::print_stdout, reason = "a program for people")]

use longboat_simulate::{
    PickerSettings,
    generate::{Kind, Traffic},
};

mod pool;

const CONFIG: &str = "{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: EndpointPickerConfig, \
    plugins: [{type: prefix-cache-scorer}, {type: queue-scorer}, {type: max-score-picker}], \
    schedulingProfiles: [{name: default, plugins: [{pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer}, \
    {pluginRef: max-score-picker}]}]}";

const KINDS: [Kind; 5] = [Kind::Poisson, Kind::Bursts, Kind::Sessions, Kind::Agents, Kind::Documents];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let kind = KINDS.into_iter().find(|kind| format!("{kind:?}").eq_ignore_ascii_case(&name));
    let numbers: Vec<f64> = words.map(|word| word.parse()).collect::<Result<_, _>>()?;
    let (Some(kind), [endpoints, rate, requests]) = (kind, &numbers[..]) else {
        return Err("expected KIND ENDPOINTS RATE REQUESTS".into());
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts from a command line")]
    let (endpoints, requests) = (*endpoints as usize, *requests as u64);
    let traffic = Traffic { kind, rate: *rate, requests, prompt_tokens: None, output_tokens: None, seed: 1 };
    let begun = std::time::Instant::now();
    let report = pool::simulate(CONFIG, endpoints, PickerSettings::default(), traffic)?;
    let took = begun.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let a_second = requests as f64 / took;
    println!(
        "{requests} requests, {endpoints} endpoints: {took:.1} s for {:.0} virtual seconds ({:.0} times as fast), {a_second:.0} \
         requests a second, TTFT p50 {:.1} ms",
        report.seconds,
        report.seconds / took,
        report.ttft.p50
    );
    Ok(())
}
