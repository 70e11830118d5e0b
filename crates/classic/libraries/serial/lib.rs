//! The library of the model `serial`.

#![no_std]

freehold_classic::export!("freehold_model_serial", freehold_classic::Serial);
