def draw_grid(path, matrix):
    raise NotImplementedError


def draw_reasons(docs):
    raise NotImplementedError
