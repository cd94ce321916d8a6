#![no_main]

#[path = "../src/simulate.rs"]
mod simulate;

libfuzzer_sys::fuzz_target!(|data: &[u8]| simulate::simulate_workload(data));
