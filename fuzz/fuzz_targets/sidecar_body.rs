#![no_main]

#[path = "../src/sidecar.rs"]
mod sidecar;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sidecar::sidecar_body(data));
