#![no_main]

#[path = "../src/proof.rs"]
mod proof;

libfuzzer_sys::fuzz_target!(|data: &[u8]| proof::proof_answer(data));
