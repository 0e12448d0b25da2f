"""The surface: the Array API's functions, tracing, and compiling."""
