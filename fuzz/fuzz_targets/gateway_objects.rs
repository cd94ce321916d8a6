#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| longboat_gateway::fuzzing::objects(data));
