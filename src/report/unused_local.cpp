namespace finity {}
