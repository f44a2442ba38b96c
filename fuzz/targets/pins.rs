#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| marquetry_pins::fuzz::pins(data));
