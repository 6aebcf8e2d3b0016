"""Where examples come from: files of pairs, vocabularies, the compact store, batches.

A file becomes rows of text (`pair_rows`), rows become token numbers (`vocabulary`), these lie in one
compact store (`token_store`), and every epoch cuts the store into batches (`batching`).
"""
